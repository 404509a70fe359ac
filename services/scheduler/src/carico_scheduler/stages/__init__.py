"""The stages of a scheduling cycle, one file per filter or scorer."""
