"""One self-contained HTML page about a run folder or a saved run (``headwater report``)."""
