package reference

import (
	"bytes"
	"encoding/json"
)

// Values returns chart, the JSON schema of a Helm chart's values, with the configuration's schema added as the
// definition `config`, without the keys that the chart itself sets.
func Values(chart []byte) ([]byte, error) {
	form, err := Schema()
	if err != nil {
		return nil, err
	}
	var config, values map[string]any
	if err := json.Unmarshal(form, &config); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(chart, &values); err != nil {
		return nil, err
	}
	for _, key := range []string{"$id", "$schema", "title"} {
		delete(config, key)
	}
	properties := config["properties"].(map[string]any)
	for _, key := range []string{"drain_delay", "drain_timeout", "drain_grace"} {
		delete(properties, key)
	}
	delete(properties["admin"].(map[string]any)["properties"].(map[string]any), "listen")
	values["definitions"].(map[string]any)["config"] = config
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(values)
	return out.Bytes(), err
}
