package resp

// GatewayCommand asks whether the peer is a Cinch gateway. The gateway answers with an array of three
// strings: the command's name, the gateway's name and the URL of the servers behind it. A Redis server
// reports an unknown command.
const GatewayCommand = "cinch.gateway"

// AppendGateway appends the answer to GatewayCommand.
func AppendGateway(dst []byte, name, upstream string) []byte {
	return AppendCommand(dst, GatewayCommand, name, upstream)
}
