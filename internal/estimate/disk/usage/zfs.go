package usage

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// dataset returns what ZFS reports on the dataset of a directory, or "" without zfs(8).
func dataset(ctx context.Context, name string) string {
	source, err := exec.CommandContext(ctx, "df", "--output=source", name).Output()
	lines := strings.Fields(string(source))
	if err != nil || len(lines) != 2 {
		return ""
	}
	text, err := exec.CommandContext(ctx, "zfs", "get", "-Hp", "-o", "property,value", "used,logicalused,compressratio", lines[1]).Output()
	if err != nil {
		return ""
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if property, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			values[property] = value
		}
	}
	return fmt.Sprintf("ZFS reports for %s: used %s, logicalused %s, compressratio %s", lines[1], values["used"], values["logicalused"], values["compressratio"])
}
