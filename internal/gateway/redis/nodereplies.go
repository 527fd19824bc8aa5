package redis

import (
	"bytes"
	"fmt"

	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// nodeReplies carries replies that name nodes.
type nodeReplies struct {
	frames    *frames
	copier    *copier
	redirects *redirects
}

// carry carries the answer to a subcommand of CLUSTER or SENTINEL.
func (n *nodeReplies) carry(subcommand string) error {
	w := cluster.RewritingOf(subcommand)
	line, h, err := n.frames.peek()
	if err != nil {
		return err
	}
	elements := int64(1)
	switch {
	case h.Kind == resp.Error:
		return n.copier.copy(shapeNone, nil)
	case w.Hidden:
		if err := n.copier.skip(); err != nil {
			return err
		}
		return n.frames.emit(resp.AppendArray(nil, 0))
	case !w.Whole && h.Kind == resp.Array:
		if err := n.frames.emitLine(line); err != nil {
			return err
		}
		elements = max(h.N, 0)
	}
	for range elements {
		if err := n.carryRenamed(w, n.redirects.renamer()); err != nil {
			return err
		}
	}
	return nil
}

func (n *nodeReplies) carryRenamed(w cluster.Rewriting, to cluster.Renamer) error {
	b, err := n.gather()
	if err != nil {
		return err
	}
	out, err := w.Append(nil, b, to)
	if err != nil {
		return fmt.Errorf("%w: %w", resp.ErrReply, err)
	}
	return n.frames.emit(out)
}

// message carries what nobody asked for: Sentinels publish addresses.
func (n *nodeReplies) message() error {
	name, err := n.frames.firstWord()
	if err != nil {
		return err
	}
	if name != "message" && name != "pmessage" {
		return n.copier.copy(shapeNone, nil)
	}
	view, life := n.redirects.view, n.redirects.life
	look := func() { view.Look(life.Context()) }
	return n.carryRenamed(cluster.RewritingOfMessage(look), view.KnownRenamer(life.Client.LocalAddr()))
}

// gather takes the element at hand into memory.
func (n *nodeReplies) gather() ([]byte, error) {
	var b bytes.Buffer
	n.frames.aside = &b
	err := n.copier.copy(shapeNone, nil)
	n.frames.aside = nil
	return b.Bytes(), err
}
