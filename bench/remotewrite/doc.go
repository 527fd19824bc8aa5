// Package remotewrite makes Prometheus remote-write requests as a cluster would
// send them, from text and label sets that real programs published: for
// benchmarks and examples that need payloads of that kind.
//
//	corpus, err := remotewrite.Load(ctx)
//	a := corpus.Scraped(2000, 40)  // 40 requests of 2,000 series in scrape order
//	b := corpus.Shuffled(2000, 10) // the same of real label sets, shuffled
//
// What Load reads comes from Go modules at fixed versions, which the go command
// downloads into its cache; none of it lies in this repository. The same call
// returns the same bytes every time.
package remotewrite
