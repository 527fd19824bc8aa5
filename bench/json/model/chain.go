package model

// Chains are an acceleration, not a part of the format: where sure alternatives follow each other, their texts are
// compared and copied together. A state is a value (3 * node), what is after it (+ 1), or the middle of its sure
// template, behind the slot (+ 2).
type link struct {
	text  string
	op    uint8
	list  bool  // of opPush
	valid bool  // otherwise there is no chain at this state
	steps int32 // tables whose sure alternative ends within the text, or with op
	need  int32 // those that begin
	mark  int32 // of opSlot: where in the text the template's value begins
	arg   int32 // slot, or key
	next  int32 // state; of opCut it is reached without a chain
	tail  string
}

const (
	opCut    = iota // nothing
	opSlot          // the text of a slot
	opString        // a string, behind its quote; arg is the slot that it is stored in, or -1
	opPush          // an object or array begins
	opPop           // it ends; the next state depends on the stack
	opKey           // the next member's node depends on the context
)

func (m *Model) compile() {
	m.links = make([]link, 3*len(m.nodes))
	for n := range int32(len(m.nodes)) {
		m.links[3*n] = m.compileState(3*n, "", 0)
		m.links[3*n+1] = m.compileState(3*n+1, "", 0)
		if parts := m.slotTemplate(n); parts != nil {
			tail := parts[len(parts)-1].text
			m.links[3*n+2] = m.compileState(3*n+1, tail, 1)
			m.links[3*n+2].tail = tail
			m.links[3*n+2].valid = true
		}
	}
}

// slotTemplate returns the parts of the sure template of a node's values if it is texts around a slot.
func (m *Model) slotTemplate(n int32) []part {
	nd := &m.nodes[n]
	if nd.values.sure < 0 || nd.slot >= 0 {
		return nil
	}
	a := &nd.values.alts[nd.values.sure]
	if a.kind != vTemplate {
		return nil
	}
	p := a.parts
	if len(p) == 3 && p[0].kind == pText && p[1].kind == pSlot && p[2].kind == pText {
		return p
	}
	return nil
}

func (m *Model) compileState(state int32, text string, steps int32) link {
	l := link{text: text, steps: steps, op: opCut, next: state}
	for len(l.text) < 300 && l.steps < 40 {
		n := l.next / 3
		nd := &m.nodes[n]
		if l.next%3 == 0 {
			t := &nd.values
			if t.sure < 0 {
				break
			}
			a := &t.alts[t.sure]
			switch a.kind {
			case vText:
				c := a.text[len(a.text)-1]
				if nd.slot >= 0 || isScalar(c) && !m.textAfter(n) {
					goto done
				}
				l.text += a.text
				l.steps++
				l.next = 3*n + 1
				continue
			case vTemplate:
				parts := m.slotTemplate(n)
				if parts == nil {
					goto done
				}
				l.mark = int32(len(l.text))
				l.text += parts[0].text
				l.op, l.arg, l.next = opSlot, int32(parts[1].n), 3*n+2
			case vString:
				l.text += `"`
				l.steps++
				l.op, l.arg, l.next = opString, nd.slot, 3*n+1
			case vOpen:
				l.text += a.text
				l.steps++
				l.op, l.list, l.arg, l.next = opPush, a.list, n, 3*a.node
			}
			goto done
		}
		t := &nd.after
		if t.sure < 0 {
			break
		}
		a := &t.alts[t.sure]
		switch a.kind {
		case aNext, aElement:
			l.text += a.text
			l.steps++
			if a.node >= 0 {
				l.next = 3 * a.node
				continue
			}
			l.op, l.arg = opKey, a.key
		case aClose:
			l.text += a.text
			l.steps++
			l.op = opPop
		}
		goto done
	}
done:
	l.need = l.steps
	if l.op == opSlot {
		l.need++
	}
	l.valid = len(l.text) > 0
	return l
}

// textAfter reports whether what is after a value is surely a text.
func (m *Model) textAfter(n int32) bool {
	t := &m.nodes[n].after
	return t.sure >= 0 && t.alts[t.sure].kind >= aNext && t.alts[t.sure].kind <= aClose
}
