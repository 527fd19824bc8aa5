package codec

// Incompressible estimates cheaply whether compressing src is a waste.
func Incompressible(src []byte) bool { return false }
