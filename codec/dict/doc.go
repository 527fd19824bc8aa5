// Package dict trains, judges, holds and stores dictionaries.
//
// Dictionaries are where small values are won, and size and algorithm matter
// more than intuition allows: bigger is often worse. So [Search] trains
// several on a part of the samples and keeps the one that does best on the
// rest. A dictionary holds pieces of the samples: it is as confidential as
// they are, and files are readable by their owner only.
package dict
