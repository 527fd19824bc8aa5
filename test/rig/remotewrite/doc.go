// Package remotewrite generates Prometheus remote-write requests as a cluster would send them, from text and
// label sets that real programs published. Benchmarks and examples use them as payloads.
//
//	corpus, err := remotewrite.Load(ctx)
//	a := corpus.Scraped(2000, 40)  // 40 requests of 2,000 series in scrape order
//	b := corpus.Shuffled(2000, 10) // the same of real label sets, shuffled
//
// Load reads Go modules at fixed versions, which the go command downloads into its cache; none of their data
// is in this repository. The same call returns the same bytes every time.
package remotewrite
