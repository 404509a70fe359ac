"""Variables that an emulated node sets in every container: a node reads their names alone, without what computes."""

# Real CPU per emulated core, the file for the last line, and the Pod's own address.
SCALE = "CARICO_SCALE"
MESSAGE = "CARICO_TERMINATION_MESSAGE_PATH"
ADDRESS = "CARICO_POD_IP"
