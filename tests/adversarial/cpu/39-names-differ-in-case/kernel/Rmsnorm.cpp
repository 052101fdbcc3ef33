// The other one.
