// Package mongo tests `cinch serve --mongo` as a process between real drivers and a real
// mongod.
package mongo
