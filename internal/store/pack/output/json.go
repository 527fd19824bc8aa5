package output

import (
	"encoding/json"

	"github.com/cinch-layer/cinch/internal/store/pack"
)

func (s *Printer) event(e map[string]any) {
	enc := json.NewEncoder(s.out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e)
}

func progressJSON(p *pack.Progress) map[string]any {
	return map[string]any{
		"event": "progress", "done": p.Done, "keys": p.Keys, "keys_per_second": p.PerSecond, "replaced": p.Replaced,
		"saved_bytes": p.Saved(), "seconds_left": p.Remaining.Seconds(), "duty": p.Duty,
	}
}

func reportJSON(r *pack.Report) map[string]any {
	saved, margin := r.Estimate()
	return map[string]any{
		"estimated_saved_bytes": saved, "estimated_margin_bytes": margin,
		"keys": r.Keys, "keys_total": r.Total, "values": r.Values, "replaced": r.Replaced, "recoded": r.Recoded,
		"stored_bytes_before": r.StoredBefore, "stored_bytes_after": r.StoredAfter,
		"allocated_bytes_before": r.CostBefore, "allocated_bytes_after": r.CostAfter, "left": r.Skipped,
		"opens": r.Opened, "raced": r.Conflicts, "rebuilt": r.Rebuilt, "problems": r.Problems,
		"damaged": r.Damaged, "dictionary_missing": r.Missing,
		"memory_usage_sampled": r.Probed, "memory_usage_before": r.ProbeBefore, "memory_usage_after": r.ProbeAfter,
		"tuple_bytes_before": r.TuplesBefore, "tuple_bytes_after": r.TuplesAfter,
		"used_memory_before": r.UsedBefore, "used_memory_after": r.UsedAfter, "seconds": r.Took.Seconds(),
		"training_cpu_seconds": r.TrainingCPU.Seconds(),
	}
}

func errorText(err error) any {
	if err == nil {
		return nil
	}
	return err.Error()
}
