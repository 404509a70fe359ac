"""What a run of a job showed: facts as they were seen, and the figures that follow from them."""
