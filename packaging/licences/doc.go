// Package licences holds THIRD_PARTY_LICENSES to what the program consists of. packaging/notice writes that file.
package licences
