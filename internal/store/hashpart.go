package store

// HashPart returns a function that reports whether a key is one worker's, of several that share all keys by a hash of
// the whole key. Worker counts from 1. With one worker it returns nil: all keys are its own.
func HashPart(worker, workers int) func(key []byte) bool {
	if workers <= 1 {
		return nil
	}
	return func(key []byte) bool { return int(CRC16(key))%workers == worker-1 }
}

// CRC16 returns the CRC-16/XMODEM of a key, from which Redis Cluster derives slots.
func CRC16(key []byte) uint16 {
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
