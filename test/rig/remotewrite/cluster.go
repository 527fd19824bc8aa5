package remotewrite

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// The simulated cluster has nodes, each with a node_exporter and a cAdvisor that reports the node's pods, and
// servers whose own metrics are scraped. A target is scraped as a whole, its series in the order of its text;
// targets come in random order. The sender spreads the series over shards by a hash of their labels, as
// Prometheus's queues and Mimir's distributors do. A request holds the series of one shard, in scrape order.
const (
	nodesPerRound  = 40 // nodes whose targets are shuffled together
	podsPerNode    = 24
	serversPerNode = 2
	shards         = 30                // typical number of ingesters in a zone
	start          = 1_790_000_000_000 // in ms
)

// Scraped returns requests with the given number of series each, in scrape order. No series occurs twice.
func (c *Corpus) Scraped(series, requests int) [][]byte {
	var out [][]byte
	for _, r := range c.scraped(series, requests) {
		out = append(out, AppendRequest(nil, r))
	}
	return out
}

// scrapeInterval is the time between two scrapes, in ms.
const scrapeInterval = 15_000

// Rescraped returns requests like Scraped, but the same series come again with each scrape, in the same
// order. This is what a sender's connection carries as long as nothing is deployed. All values but flags are
// new each time, while many real ones would stay the same or grow slightly.
func (c *Corpus) Rescraped(series, requests, scrapes int) [][]byte {
	first := c.scraped(series, requests/scrapes)
	rng := rand.New(rand.NewPCG(1, 7))
	var out [][]byte
	for n := range scrapes {
		for _, r := range first {
			again := slices.Clone(r)
			for i := range again {
				again[i].Value = vary(rng, again[i].Value)
				again[i].Timestamp += int64(n) * scrapeInterval
			}
			out = append(out, AppendRequest(nil, again))
		}
	}
	return out
}

func (c *Corpus) scraped(series, requests int) (out [][]Series) {
	var pending []Series
	for round := uint64(0); len(out) < requests; round++ {
		rng := rand.New(rand.NewPCG(round, 6))
		for _, i := range rng.Perm(nodesPerRound * targetsPerNode) {
			node := int(round)*nodesPerRound + i/targetsPerNode
			pending = append(pending, oneShard(c.scrape(node, i%targetsPerNode))...)
			for len(pending) >= series && len(out) < requests {
				out = append(out, pending[:series])
				pending = pending[series:]
			}
		}
	}
	return out
}

func oneShard(all []Series) []Series {
	return slices.DeleteFunc(all, func(s Series) bool {
		h := fnv.New32a()
		for _, l := range s.Labels {
			h.Write([]byte(l.Name + "=" + l.Value + ","))
		}
		return h.Sum32()%shards != 0
	})
}

// Shuffled returns requests of real label sets, which are repeated when none are left.
func (c *Corpus) Shuffled(series, requests int) [][]byte {
	rng := rand.New(rand.NewPCG(3, 4))
	var out [][]byte
	next := 0
	for range requests {
		var all []Series
		for range series {
			all = append(all, Series{Labels: c.sets[next%len(c.sets)], Value: math.Round(rng.ExpFloat64()*1e7) / 1e3, Timestamp: start + int64(next)/500*15_000})
			next++
		}
		out = append(out, AppendRequest(nil, all))
	}
	return out
}

// Targets of a node, by number: these two, then its servers.
const (
	nodeTarget = iota
	kubeletTarget
	firstServer
	targetsPerNode = firstServer + serversPerNode
)

// scrape returns the series that a target of a node exposes.
func (c *Corpus) scrape(number, which int) []Series {
	rng := rand.New(rand.NewPCG(uint64(number), 5))
	ip := fmt.Sprintf("10.%d.%d.%d", 16+number%4, rng.IntN(256), rng.IntN(256))
	node := "ip-" + strings.ReplaceAll(ip, ".", "-") + ".eu-west-1.compute.internal"
	var pods []pod
	for range podsPerNode {
		pods = append(pods, newPod(rng))
	}
	switch which {
	case nodeTarget:
		return target(rng, c.node, labelsOf("node-exporter", "monitoring", "node-exporter-"+suffix(rng, 5), "node-exporter", ip+":9100", node))
	case kubeletTarget:
		return target(rng, containers(c.container, pods), []Label{
			{"cluster", "prod-eu-west-1"},
			{"endpoint", "https-metrics"},
			{"instance", ip + ":10250"},
			{"job", "kubelet"},
			{"metrics_path", "/metrics/cadvisor"},
			{"node", node},
			{"service", "kubelet"},
		})
	default:
		p := pods[which-firstServer]
		return target(rng, c.server, labelsOf(p.app, p.namespace, p.name, p.app, fmt.Sprintf("10.%d.%d.%d:8080", 32+number%4, which, rng.IntN(256)), node))
	}
}

// labelsOf returns the labels that service discovery attaches to a target in Kubernetes.
func labelsOf(job, namespace, pod, container, instance, node string) []Label {
	return []Label{
		{"cluster", "prod-eu-west-1"},
		{"container", container},
		{"endpoint", "metrics"},
		{"instance", instance},
		{"job", job},
		{"namespace", namespace},
		{"node", node},
		{"pod", pod},
		{"service", job},
	}
}

// target adds the target's labels to each series and varies its values, as if the target were one instance
// among many.
func target(rng *rand.Rand, scraped []Series, labels []Label) []Series {
	at := start + rng.Int64N(15_000)
	out := make([]Series, 0, len(scraped))
	for _, s := range scraped {
		s.Labels = append(slices.Clip(slices.Clone(s.Labels)), labels...)
		sortLabels(s.Labels)
		s.Labels = slices.CompactFunc(s.Labels, func(a, b Label) bool { return a.Name == b.Name })
		s.Value = vary(rng, s.Value)
		s.Timestamp = at
		out = append(out, s)
	}
	return out
}

// vary returns a value near v. It keeps integers integral, and returns small integers unchanged: they are
// flags, or counts that are the same for every instance.
func vary(rng *rand.Rand, v float64) float64 {
	if v != v || math.IsInf(v, 0) || math.Abs(v) <= 2 && v == math.Trunc(v) {
		return v
	}
	varied := v * (0.5 + rng.Float64())
	if v == math.Trunc(v) {
		return math.Round(varied)
	}
	return varied
}

type pod struct{ namespace, app, name, container, id, image string }

var apps = []string{
	"checkout", "cart", "payments", "search", "recommendation", "frontend", "ad-service", "shipping", "currency", "email",
	"session-store", "inventory", "pricing", "ingester", "distributor", "querier", "store-gateway", "compactor", "coredns", "fluent-bit",
}

func newPod(rng *rand.Rand) pod {
	app := apps[rng.IntN(len(apps))]
	return pod{
		namespace: []string{"shop", "shop-canary", "observability", "kube-system"}[rng.IntN(4)],
		app:       app,
		name:      app + "-" + suffix(rng, 10) + "-" + suffix(rng, 5),
		container: app,
		id:        fmt.Sprintf("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/cri-containerd-%s.scope", hexOf(rng, 32), hexOf(rng, 64)),
		image:     "registry.internal/" + app + "@sha256:" + fmt.Sprintf("%064x", len(app)*7919),
	}
}

// containers repeats each series of cAdvisor's text for every container. The text is ordered by metric, and
// within a metric by container.
func containers(scraped []Series, pods []pod) []Series {
	var out []Series
	for from := 0; from < len(scraped); {
		to := from + 1
		for to < len(scraped) && scraped[to].Labels[0] == scraped[from].Labels[0] {
			to++
		}
		for _, p := range pods {
			for _, s := range scraped[from:to] {
				s.Labels = p.relabel(s.Labels)
				out = append(out, s)
			}
		}
		from = to
	}
	return out
}

// relabel replaces the labels of the text's one container by those that a kubelet sets.
func (p pod) relabel(labels []Label) []Label {
	var out []Label
	for _, l := range labels {
		switch {
		case l.Name == "id" || l.Name == "image" || l.Name == "name" || l.Name == "zone_name":
		case strings.HasPrefix(l.Name, "container_"):
		default:
			out = append(out, l)
		}
	}
	return append(out, Label{"container", p.container}, Label{"id", p.id}, Label{"image", p.image}, Label{"name", p.id[len(p.id)-70:]}, Label{"namespace", p.namespace}, Label{"pod", p.name})
}

func suffix(rng *rand.Rand, n int) string { return random(rng, n, "bcdfghjklmnpqrstvwxz2456789") }

func hexOf(rng *rand.Rand, n int) string { return random(rng, n, "0123456789abcdef") }

func random(rng *rand.Rand, n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}
