package bill

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

type row struct {
	Product string   `parquet:"line_item_product_code"`
	Usage   string   `parquet:"line_item_usage_type"`
	Kind    string   `parquet:"line_item_line_item_type"`
	Amount  float64  `parquet:"line_item_usage_amount"`
	Cost    float64  `parquet:"line_item_unblended_cost"`
	Tag     *string  `parquet:"resource_tags_user_team,optional"`
	Other   []string `parquet:"product"`
}

// A bill like that of the published case: traffic between zones is 43 % of it.
var rows = []row{
	{"AmazonEC2", "EUC1-DataTransfer-Regional-Bytes", "Usage", 20000, 400, nil, nil},
	{"AmazonEC2", "DataTransfer-xAZ-Out-Bytes", "Usage", 1500, 30, nil, []string{"a", "b"}},
	{"AmazonEC2", "USE1-USW2-AWS-Out-Bytes", "Usage", 500, 10, nil, nil},
	{"AmazonEC2", "USE2-BoxUsage:r6g.4xlarge", "DiscountedUsage", 730, 200, nil, nil},
	{"AmazonEC2", "BoxUsage:c6g.large", "Usage", 730, 50, nil, nil},
	{"AmazonEC2", "EBS:VolumeUsage.gp3", "Usage", 1000, 80, nil, nil},
	{"AmazonEC2", "EBS:SnapshotUsage", "Usage", 1000, 50, nil, nil},
	{"AmazonElastiCache", "NodeUsage:cache.r6g.large", "Usage", 730, 150, nil, nil},
	{"AmazonS3", "TimedStorage-ByteHrs", "Usage", 1000, 23, nil, nil},
	{"AmazonEC2", "BoxUsage:m5.large", "Usage", 730, 7, nil, nil},
	{"AmazonEC2", "", "Tax", 0, 190, nil, nil},
	{"AmazonEC2", "EUC1-DataTransfer-Regional-Bytes", "Credit", 0, -100, nil, nil},
}

func csvOf(header string) string {
	var b strings.Builder
	b.WriteString(header + "\n")
	for _, r := range rows {
		b.WriteString("x," + r.Product + "," + r.Usage + "," + r.Kind + "," + trim(r.Amount) + "," + trim(r.Cost) + "\n")
	}
	return b.String()
}

func trim(v float64) string {
	text := parquet.ValueOf(v).String()
	return text
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func parquetOf(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.Compression(&parquet.Snappy))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRead(t *testing.T) {
	v1 := csvOf("identity/LineItemId,lineItem/ProductCode,lineItem/UsageType,lineItem/LineItemType,lineItem/UsageAmount,lineItem/UnblendedCost")
	v2 := csvOf("\ufeffidentity_line_item_id,line_item_product_code,line_item_usage_type,line_item_line_item_type,line_item_usage_amount,line_item_unblended_cost")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(v1))
	z.Close()
	for name, content := range map[string][]byte{"v1.csv": []byte(v1), "v2.csv": []byte(v2), "v1.csv.gz": zipped.Bytes(), "cur.parquet": parquetOf(t)} {
		r, err := Read(context.Background(), write(t, name, content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Total != 1000 || r.Lines != 10 || math.Abs(r.Reducible-943) > 1e-9 {
			t.Errorf("%s: %+v", name, r)
		}
		want := []string{"traffic between zones", "instances sized by memory", "caches in memory", "volumes", "snapshots and backups", "object storage", "traffic between regions"}
		var got []string
		for _, c := range r.Rows {
			got = append(got, c.Name)
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s: ranked %q, want %q", name, got, want)
		}
		first := r.Rows[0]
		if first.Cost != 430 || math.Abs(first.Share-0.43) > 1e-9 || len(first.Types) != 2 || first.Types[0].Amount != 20000 || !strings.Contains(first.Next, "http://") {
			t.Errorf("%s: %+v", name, first)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := parquetOf(t)
	other := bytes.Buffer{}
	w := parquet.NewGenericWriter[struct{ A int }](&other)
	_, _ = w.Write([]struct{ A int }{{1}})
	w.Close()
	for name, content := range map[string][]byte{
		"empty.csv":       nil,
		"text.txt":        []byte("hello\nworld\n"),
		"noise":           {0xff, 0xfe, 1, 2, 3},
		"half.parquet":    good[:len(good)/2],
		"damaged.parquet": append(append([]byte{}, good[:40]...), good[60:]...),
		"other.parquet":   other.Bytes(),
		"half.gz":         {0x1f, 0x8b, 8},
		"words.csv":       []byte("line_item_usage_type,line_item_unblended_cost\nx,much\n"),
		"nan.csv":         []byte("line_item_usage_type,line_item_unblended_cost\nx,NaN\n"),
		"row.csv":         append([]byte("line_item_usage_type,line_item_unblended_cost\n\""), bytes.Repeat([]byte("x"), 9<<20)...),
	} {
		if _, err := Read(context.Background(), write(t, name, content)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(context.Background(), write(t, "none.csv", []byte("line_item_usage_type,line_item_unblended_cost\nx,0\n"))); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
}

// Usage in a period counts, and a line that is partly in it counts in part.
func TestReadBetween(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	type dated struct {
		Usage string  `parquet:"line_item_usage_type"`
		Cost  float64 `parquet:"line_item_unblended_cost"`
		From  int64   `parquet:"line_item_usage_start_date,timestamp(millisecond)"`
		To    int64   `parquet:"line_item_usage_end_date,timestamp(millisecond)"`
	}
	var text, table bytes.Buffer
	text.WriteString("lineItem/UsageType,lineItem/UnblendedCost,lineItem/UsageStartDate,lineItem/UsageEndDate\n")
	w := parquet.NewGenericWriter[dated](&table)
	for n := 1; n <= 20; n++ {
		fmt.Fprintf(&text, "DataTransfer-Regional-Bytes,1,%s,%s\n", day(n).Format(time.RFC3339), day(n+1).Format(time.RFC3339))
		if _, err := w.Write([]dated{{"DataTransfer-Regional-Bytes", 1, day(n).UnixMilli(), day(n + 1).UnixMilli()}}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	for name, content := range map[string][]byte{"daily.csv": text.Bytes(), "daily.parquet": table.Bytes()} {
		file := write(t, name, content)
		for _, c := range []struct {
			from, to time.Time
			cost     float64
			covered  time.Time
		}{
			{day(5), day(8), 3, day(8)},
			{day(5).Add(12 * time.Hour), day(8), 2.5, day(8)},
			{day(19), day(30), 2, day(21)},
			{time.Time{}, time.Time{}, 20, day(21)},
		} {
			r, err := ReadBetween(t.Context(), file, c.from, c.to)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if zones := r.Of(BetweenZones); math.Abs(zones.Cost-c.cost) > 1e-9 || !r.To.Equal(c.covered) {
				t.Errorf("%s, %v to %v: %+v until %v", name, c.from, c.to, zones, r.To)
			}
		}
		if _, err := ReadBetween(t.Context(), file, day(25), day(30)); !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: after its end: %v", name, err)
		}
	}
	if _, err := Read(t.Context(), write(t, "x.csv", []byte("line_item_usage_type,line_item_unblended_cost,line_item_usage_start_date\nx,1,soon\n"))); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("lineItem/UsageType,lineItem/UnblendedCost\nx,1\n"))
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Read(context.Background(), name)
		if (r == nil) == (err == nil) {
			t.Errorf("%v, %v", r, err)
		}
	})
}

// The meaning of a usage type depends on the product.
func TestProducts(t *testing.T) {
	for _, c := range []struct{ product, usage, want string }{
		{"AmazonCloudWatch", "USE1-DataProcessing-Bytes", ""},
		{"AmazonCloudWatch", "TimedStorage-ByteHrs", ""},
		{"AmazonEC2", "USE1-NatGateway-Bytes", "NAT and load balancers, by the byte"},
		{"AWSELB", "DataProcessing-Bytes", "NAT and load balancers, by the byte"},
		{"AmazonDynamoDB", "TimedStorage-ByteHrs", "tables in DynamoDB"},
		{"AmazonS3", "TimedStorage-ByteHrs", "object storage"},
		{"", "TimedStorage-ByteHrs", "object storage"},
		{"Amazon Elastic Compute Cloud", "USE1-NatGateway-Bytes", "NAT and load balancers, by the byte"},
		{"Elastic Load Balancing", "DataProcessing-Bytes", "NAT and load balancers, by the byte"},
		{"Amazon Simple Storage Service", "TimedStorage-ByteHrs", "object storage"},
		{"Amazon DynamoDB", "TimedStorage-ByteHrs", "tables in DynamoDB"},
		{"AmazonEC2", "USE1-DataTransfer-Out-Bytes", "traffic to the internet"},
		{"AmazonEC2", "DataTransfer-Regional-Bytes", "traffic between zones"},
	} {
		got := ""
		if k := kindOf(Line{Product: c.product, UsageType: c.usage}); k >= 0 {
			got = kinds[k].name
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.product, c.usage, got, c.want)
		}
	}
}

// A report may have the product's code or name in another column than the line item's.
func TestOtherProductColumns(t *testing.T) {
	const line = "NodeUsage:cache.r6g.large,150,"
	for header, product := range map[string]string{
		"product/ProductName": "Amazon ElastiCache", "product_product_name": "Amazon MemoryDB", "product/servicecode": "AmazonElastiCache",
		"lineItem/ProductCode": "AmazonElastiCache", "product/ProductName,lineItem/ProductCode": "?,AmazonElastiCache",
		"lineItem/ProductCode,product/ProductName": ",Amazon ElastiCache",
	} {
		file := write(t, "bill.csv", []byte("lineItem/UsageType,lineItem/UnblendedCost,"+header+"\n"+line+product+"\n"))
		if r, err := Read(t.Context(), file); err != nil || r.Of("caches in memory").Cost != 150 {
			t.Errorf("%s: %+v, %v", header, r, err)
		}
	}
	type named struct {
		Usage string  `parquet:"line_item_usage_type"`
		Cost  float64 `parquet:"line_item_unblended_cost"`
		Name  string  `parquet:"product_product_name"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[named](&b)
	if _, err := w.Write([]named{{"NodeUsage:cache.r6g.large", 150, "Amazon ElastiCache"}}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if r, err := Read(t.Context(), write(t, "bill.parquet", b.Bytes())); err != nil || r.Of("caches in memory").Cost != 150 {
		t.Errorf("%+v, %v", r, err)
	}
}
