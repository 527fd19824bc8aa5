package resp

// GatewayCommand asks whether a Cinch gateway answers. The gateway answers it itself, with an array of three strings: the
// command's name, the gateway's name and the URL of what is behind it. Servers call it an unknown command.
const GatewayCommand = "cinch.gateway"

// AppendGateway appends the answer.
func AppendGateway(dst []byte, name, upstream string) []byte {
	return AppendCommand(dst, GatewayCommand, name, upstream)
}
