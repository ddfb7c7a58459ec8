"""Files of somf: arrays with a checksum, and fitted models."""
