"""Route manifests, partitions and the flow of `dpone run`."""
