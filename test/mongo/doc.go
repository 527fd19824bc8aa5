// Package mongo tests `cinch serve --mongo` as a process between real drivers and a real
// mongod. suites runs PyMongo's own tests, direct and through a gateway.
package mongo
