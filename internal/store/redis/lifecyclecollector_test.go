package redis

// collect carries out a step of cinch dict gc, and reports whether it is possible.
func (m *lifecycle) collect(s *lifecycleState, a lifecycleAction) bool {
	c := &s.collector
	switch {
	case a.is == collectStarts:
		retired, there := m.collectable(s)
		if c.phase != notCollecting || s.runs == 0 || !there {
			return false
		}
		s.runs--
		*c = collectorState{phase: scanning, retired: retired}
		if m.without.firstScan {
			c.phase = retiring
		}
		return true
	case a.is == eraseStarts:
		if !m.erases || c.phase != notCollecting || s.erasedAll || !m.isArchivedAnywhere(s) || s.renamed && !m.ignores.renameAndErase {
			return false
		}
		*c = collectorState{phase: scanningToErase}
		if m.without.eraseScan {
			c.phase = checkingToErase
		}
		return true
	case c.phase == notCollecting:
		return false
	case a.is == collectStops:
		if s.faults == 0 {
			return false
		}
		s.faults--
		*c = collectorState{}
		return true
	case a.is == collectMisses:
		if !m.renames || !c.scans() || s.shards[c.shard].now.names == 0 {
			return false
		}
		s.renamed = true
		m.scanned(s, false)
		return true
	}
	return m.goOn(s)
}

// collectable merges the states of the dictionary in the shards, as CollectOptions.states and idle do.
func (m *lifecycle) collectable(s *lifecycleState) (retired, there bool) {
	for i := range m.shards {
		l := s.shards[i].now.libs
		retired = retired || l&live != 0 && l&marked != 0
		there = there || l&live != 0
	}
	return retired, there
}

func (m *lifecycle) isArchivedAnywhere(s *lifecycleState) bool {
	for i := range m.shards {
		if s.shards[i].now.libs&archived != 0 {
			return true
		}
	}
	return false
}

func (c *collectorState) scans() bool {
	return c.phase == scanning || c.phase == scanningAgain || c.phase == scanningToErase
}

// archives reports whether gc is between the commands that archive a dictionary in a shard, or erase it.
func (c *collectorState) archives() bool {
	return c.phase == removing || c.phase == unmarking || c.phase == erasing
}

// say describes the next step of gc.
func (c *collectorState) say() string {
	s := "shard " + shardName(c.shard)
	switch c.phase {
	case scanning, scanningAgain, scanningToErase:
		return "gc scans " + s
	case retiring:
		return "gc marks the dictionary as retired in " + s
	case waiting:
		return "gc ends its wait"
	case deciding:
		return "gc decides by its second scan"
	case unretiring:
		return "gc removes the mark in " + s
	case archiving:
		return "gc stores the dictionary in the archive of " + s
	case removing:
		return "gc removes the live dictionary from " + s
	case unmarking:
		return "gc removes the mark of the archived dictionary in " + s
	case checkingToErase:
		return "gc sees whether the dictionary is archived in " + s
	case markingToErase:
		return "gc marks the dictionary as erased in " + s
	default:
		return "gc erases the dictionary from " + s
	}
}

// next goes to the next shard in the same phase, or to the next phase.
func (m *lifecycle) next(c *collectorState, then phase) {
	if c.shard++; int(c.shard) == m.shards {
		c.shard, c.phase = 0, then
	}
}

// goOn carries out the next command of cinch dict gc.
func (m *lifecycle) goOn(s *lifecycleState) bool {
	c := &s.collector
	shard := &s.shards[c.shard]
	l := &shard.now.libs
	switch c.phase {
	case scanning, scanningAgain, scanningToErase:
		m.scanned(s, shard.now.names != 0)
	case retiring:
		*l |= marked
		if m.next(c, waiting); c.phase == waiting {
			for i := range m.shards {
				if s.shards[i].now.libs&marked != 0 {
					c.marks |= 1 << i
				}
			}
			if c.wait = uint8(modelWait / tick); m.without.wait {
				c.wait = 0
			}
		}
	case waiting:
		if c.wait > 0 {
			return false
		}
		if c.phase = scanningAgain; m.without.secondScan {
			c.phase = deciding
		}
	case deciding:
		switch {
		case c.found:
			c.phase = unretiring
		case !m.isStillRetired(s) && !m.without.stillRetired || !m.isHeldAnywhere(s):
			*c = collectorState{}
		default:
			c.phase = archiving
			c.found = false
		}
	case unretiring:
		*l &^= marked | erased
		m.next(c, notCollecting)
	case archiving, removing, unmarking:
		m.archive(c, l)
	case checkingToErase:
		switch {
		case *l&live == 0 && *l&archived != 0:
			c.phase = markingToErase
		case *l&live != 0:
			*c = collectorState{}
		case !m.ignores.noCheckMeanwhile && m.isBeingChecked(s, c.shard):
			return false
		default: // not here: dictAdmin.Forget marks this shard too, and does so first
			*l |= marked | erased
			m.next(c, notCollecting)
		}
	case markingToErase:
		*l |= marked | erased
		c.phase = erasing
	case erasing:
		*l &^= archived
		c.erased = true
		c.phase = checkingToErase
		m.next(c, notCollecting)
	}
	if c.phase == notCollecting {
		s.erasedAll = s.erasedAll || c.erased
		*c = collectorState{}
	}
	return true
}

// scanned ends the scan of one shard, and decides after the last.
func (m *lifecycle) scanned(s *lifecycleState, found bool) {
	c := &s.collector
	was := c.phase
	c.found = c.found || found
	m.next(c, deciding)
	if c.phase == was {
		return
	}
	moved := c.moved && !m.without.layout
	c.moved = false
	switch {
	case moved:
		*c = collectorState{}
	case was == scanning && c.found && c.retired:
		c.phase = unretiring
	case was == scanning && !c.found:
		c.phase = retiring
	case was == scanningToErase && !c.found:
		c.phase = checkingToErase
	case was == scanningAgain:
	default:
		*c = collectorState{}
	}
}

func (m *lifecycle) isBeingChecked(s *lifecycleState, shard uint8) bool {
	for g := range m.gateways {
		if op := s.gateways[g].op; op.is != 0 && op.shard == shard {
			return true
		}
	}
	return false
}

func (m *lifecycle) isStillRetired(s *lifecycleState) bool {
	for i := range m.shards {
		if s.collector.marks&(1<<i) == 0 || s.shards[i].now.libs&marked == 0 {
			return false
		}
	}
	return true
}

// archive carries out one of the three steps of dictBackends.archiveThis.
func (m *lifecycle) archive(c *collectorState, l *libraries) {
	first, second := func() { *l |= archived }, func() { *l &^= live }
	if m.without.archiveFirst {
		first, second = second, first
	}
	switch c.phase {
	case archiving:
		first()
		c.phase = removing
	case removing:
		second()
		c.phase = unmarking
	default:
		*l &^= marked | erased
		c.phase = archiving
		m.next(c, notCollecting)
	}
}

// broken returns the invariant that a state breaks, or "".
func (m *lifecycle) broken(s lifecycleState) string {
	for slot := range m.shards {
		shard := &s.shards[s.owner[slot]]
		if shard.now.names&(1<<slot) == 0 || m.readable(shard.now.libs) {
			continue
		}
		if !shard.now.flushed || !m.willBeRestored(&s, s.owner[slot]) {
			return "a value names a dictionary that its shard lacks"
		}
	}
	switch {
	case s.namedAfter:
		return "a gateway names a dictionary that a FUNCTION FLUSH has removed which it forwarded"
	case s.cameBack:
		return "a gateway has stored a dictionary again that was erased"
	case m.erases || m.fails || m.backups || m.flushes || s.renamed:
		return ""
	}
	for slot := range m.shards {
		l := s.shards[s.owner[slot]].now
		if l.names&(1<<slot) != 0 && l.libs&live == 0 && l.libs&archived != 0 {
			return "a dictionary is archived that a value names"
		}
	}
	return ""
}

// willBeRestored reports whether the next checks of gateways restore the dictionary in a shard.
func (m *lifecycle) willBeRestored(s *lifecycleState, i uint8) bool {
	for g := range m.gateways {
		if s.gateways[g].at[i].kept {
			return true
		}
	}
	return m.shards > 1 && !m.without.spread && m.readable(s.shards[1-i].now.libs)
}
