package pack

// crc16 is CRC-16/XMODEM, which Redis Cluster uses for slots, of the whole key: a tag in
// braces would put everything of one customer on one worker.
func crc16(key []byte) uint16 {
	crc := uint16(0)
	for _, b := range key {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
