"""Optional dimensions, each from one kind of device: `disk`, `network`, `gpu` (with `gpu_memory`)."""
