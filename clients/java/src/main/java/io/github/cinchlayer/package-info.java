/**
 * Reads and writes the values that Cinch's gateways compress, without a gateway. docs/FORMAT.md is the format, docs/LIBRARIES.md says
 * how a library learns what to compress. {@link io.github.cinchlayer.Cinch} is where to begin.
 */
package io.github.cinchlayer;
