// Package mongo tests `cinch serve --mongo` as a process between real drivers and a real mongod. suites
// runs PyMongo's and the Go driver's own tests directly, through a gateway and through a pair.
package mongo
