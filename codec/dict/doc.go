// Package dict trains, evaluates, holds and stores dictionaries.
//
// Small values gain most from dictionaries, and the best size and algorithm are hard to guess: bigger is
// often worse. So [Search] trains several on a part of the samples and keeps the one that is best on the
// rest. A dictionary holds pieces of the samples: it is as confidential as they are, and files are readable
// by their owner only.
package dict
