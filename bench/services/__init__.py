"""What a service, a scrape or a viewer costs, and how late the scheduler's view is."""
