// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"encoding/binary"
	"fmt"

	"hvia/host"
	"hvia/layout"
)

// verdict is one program's result, for another program of the experiment. It is
// a message because the other program may be in another process.
type verdict struct {
	vi       int          // index of the messages' VI
	messages int          // sent
	spent    host.Account // by the processor of its host in the counted rounds
	fault    string       // the first wrong byte, "" for none
}

const verdictHead = 8 + accountBytes

func (v verdict) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(v.vi))
	b = binary.LittleEndian.AppendUint32(b, uint32(v.messages))
	b = append(encodeAccount(b, v.spent), v.fault...)
	return b[:min(len(b), layout.BridgeMaxMessage)]
}

func decodeVerdict(b []byte) (verdict, error) {
	if len(b) < verdictHead {
		return verdict{}, fmt.Errorf("a verdict of %d bytes, want at least %d: do both processes run the same version?", len(b), verdictHead)
	}
	return verdict{int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:])), decodeAccount(b[8:]), string(b[verdictHead:])}, nil
}
