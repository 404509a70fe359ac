"""Programs that Pods of a local cluster run: paced so that one thread asks for at most one emulated core."""
