package schema

// Tuple is a decoded tuple of a system space. Integers are int64 or uint64, and maps have keys of any type.
type Tuple []any

// At returns a field by its number, from 0; nil beyond the end.
func (t Tuple) At(i int) any {
	if i < len(t) {
		return t[i]
	}
	return nil
}

// Int returns a field that is an integer.
func (t Tuple) Int(i int) (int64, bool) { return integer(t.At(i)) }

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case uint64:
		return int64(n), n < 1<<63
	}
	return 0, false
}

func mapOf(v any) map[any]any {
	m, _ := v.(map[any]any)
	return m
}
