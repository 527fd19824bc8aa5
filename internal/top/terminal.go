package top

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/cinch-layer/cinch/internal/admin"
)

// A Page is the source of a status.
type Page interface {
	Name() string
	Status(ctx context.Context) (admin.Status, error)
}

// Watch polls several pages.
type Watch struct {
	pages []Page
	last  []Look
	ever  bool
}

// NewWatch returns a Watch of pages.
func NewWatch(pages []Page) *Watch { return &Watch{pages: pages, last: make([]Look, len(pages))} }

// Next polls all pages and returns the changes since the previous call. The first call returns averages since
// each process began.
func (w *Watch) Next(ctx context.Context) (list []Gateway, first bool) {
	looks := make([]Look, len(w.pages))
	var all sync.WaitGroup
	for i, p := range w.pages {
		all.Go(func() {
			looks[i] = Look{Page: p.Name(), At: time.Now()}
			if s, err := p.Status(ctx); err != nil {
				looks[i].Err = err
			} else {
				looks[i].Status = &s
			}
		})
	}
	all.Wait()
	for i := range looks {
		list = append(list, Gateways(w.last[i], looks[i])...)
		if looks[i].Status != nil { // after a missed poll a page is compared with its previous status
			w.last[i] = looks[i]
		}
	}
	first, w.ever = !w.ever, true
	return list, first
}

// within is Next with a timeout, so that an unreachable page does not delay the others for long.
func (w *Watch) within(ctx context.Context, every time.Duration) ([]Gateway, bool) {
	ctx, cancel := context.WithTimeout(ctx, max(5*time.Second, every))
	defer cancel()
	return w.Next(ctx)
}

// model redraws the screen.
type model struct {
	screen
	ctx    context.Context
	watch  *Watch
	asking bool
	round  int // ticks of earlier rounds are ignored: the clock was stopped since
}

// Run shows the pages until the user quits or ctx ends.
func Run(ctx context.Context, pages []Page, every time.Duration, colours bool) error {
	m := &model{ctx: ctx, watch: NewWatch(pages), screen: screen{every: every, pages: len(pages), at: time.Now(), colours: colours}}
	_, err := tea.NewProgram(m, tea.WithContext(ctx)).Run()
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was interrupted, which is how people leave
	}
	return err
}

type (
	// looked holds new states of all pages.
	looked struct {
		list  []Gateway
		first bool
		at    time.Time
	}
	tick int // of a round
)

func (m *model) Init() tea.Cmd { return m.look() }

// look polls unless a poll is running: Watch is not for concurrent use.
func (m *model) look() tea.Cmd {
	if m.asking {
		return nil
	}
	m.asking = true
	return func() tea.Msg {
		list, first := m.watch.within(m.ctx, m.every)
		return looked{list, first, time.Now()}
	}
}

func (m *model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case tea.KeyPressMsg:
		return m, m.key(message.String())
	case tick:
		if m.paused || int(message) != m.round {
			return m, nil
		}
		return m, m.look()
	case looked:
		m.asking = false
		if !m.paused {
			m.first, m.at = message.first, message.at
			m.arrange(message.list)
		}
		pause := m.every
		if message.first {
			pause = min(pause, time.Second) // averages since the start are not rates
		}
		round := m.round
		return m, tea.Tick(pause, func(time.Time) tea.Msg { return tick(round) })
	}
	return m, nil
}

func (m *model) key(key string) tea.Cmd {
	switch key {
	case "q", "esc", "ctrl+c":
		return tea.Quit
	case "down", "j":
		m.selected = min(m.selected+1, max(len(m.gateways)-1, 0))
	case "up", "k":
		m.selected = max(m.selected-1, 0)
	case "s":
		m.order = (m.order + 1) % orders
		m.arrange(m.gateways)
	case "?", "h":
		m.help = !m.help
	case "p", "space":
		m.round++
		if m.paused = !m.paused; !m.paused {
			return m.look()
		}
	}
	return nil
}

func (m *model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	v.WindowTitle = "cinch top"
	return v
}
