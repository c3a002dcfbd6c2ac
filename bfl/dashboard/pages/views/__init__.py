"""View models: what a page shows, as plain frozen values; whoever reads them needs neither templates nor a browser."""
