package lanes

import (
	"strconv"
	"strings"
)

// Header is the name of the header about lanes. In responses it has the room of each lane for requests (see memory.go),
// 0 for no lane. In requests it has the lane for the reply, its room, and "new" if the session must begin anew.
//
//	cinch-lanes: 44,40        response
//	cinch-lanes: 0,44,new     request
const Header = "Cinch-Lanes"

// OpenedHeader is the name of a header or trailer of responses: how many messages of the request were decompressed in
// lanes.
const OpenedHeader = "Cinch-Opened"

const anewWord = "new"

// formatRooms formats the room of each lane; "" if there are no lanes.
func formatRooms(rooms []byte) string {
	for len(rooms) > 0 && rooms[len(rooms)-1] == 0 {
		rooms = rooms[:len(rooms)-1]
	}
	b := make([]byte, 0, 3*MaxLanes)
	for i, r := range rooms {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(r), 10)
	}
	return string(b)
}

// parseRooms is the inverse of formatRooms.
func parseRooms(text string) (rooms [MaxLanes]byte, ok bool) {
	i := 0
	for part := range strings.SplitSeq(text, ",") {
		r, ok := parseRoom(part)
		if !ok || i == MaxLanes {
			return rooms, false
		}
		rooms[i] = r
		i++
	}
	return rooms, true
}

func parseRoom(text string) (byte, bool) {
	n, err := strconv.ParseUint(text, 10, 8)
	return byte(n), err == nil && (n == 0 || n >= leastRoom && n <= mostRoom)
}

// assignment is the lane of a reply as its request declares it.
type assignment struct {
	lane int
	room byte
	anew bool
}

func (a assignment) String() string {
	text := strconv.Itoa(a.lane) + "," + strconv.Itoa(int(a.room))
	if a.anew {
		text += "," + anewWord
	}
	return text
}

// parseAssignment is the inverse of String.
func parseAssignment(text string) (a assignment, ok bool) {
	lane, rest, _ := strings.Cut(text, ",")
	room, rest, more := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(lane, 10, 8)
	if err != nil || n >= MaxLanes || more && rest != anewWord {
		return a, false
	}
	a = assignment{lane: int(n), anew: more}
	a.room, ok = parseRoom(room)
	return a, ok && a.room > 0
}

// ParseOpened parses a value of OpenedHeader; -1 if it is invalid.
func ParseOpened(text string) int64 {
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		return -1
	}
	return int64(n)
}
