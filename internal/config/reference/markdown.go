package reference

import (
	"fmt"
	"strings"
)

const endMarker = "<!-- end keys -->"

// Page returns the page with each table regenerated between its markers.
func Page(page string) (string, error) {
	for _, t := range tables() {
		begin := "<!-- begin keys: " + t.name + " -->\n"
		before, rest, found := strings.Cut(page, begin)
		_, after, ended := strings.Cut(rest, endMarker)
		if !found || !ended {
			return "", fmt.Errorf("the page has no markers for %q", t.name)
		}
		page = before + begin + t.markdown() + endMarker + after
	}
	return page, nil
}

func (t table) markdown() string {
	var b strings.Builder
	if t.also {
		b.WriteString("| key | default | variable, flag | meaning |\n|---|---|---|---|\n")
	} else {
		b.WriteString("| key | default | meaning |\n|---|---|---|\n")
	}
	for _, r := range t.rows {
		cells := []string{r.Keys, r.Default, r.Meaning}
		if t.also {
			cells = []string{r.Keys, r.Default, r.Also, r.Meaning}
		}
		for _, cell := range cells {
			if cell == "" {
				b.WriteString("| ")
				continue
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}
