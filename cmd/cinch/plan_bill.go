package main

import "errors"

func runBill(planOptions) error { return errors.New("not yet") }
