"""The pages themselves: view models, templates, styles, scripts. `web` serves them."""

from bfl.dashboard.pages.rendering import error_page
from bfl.dashboard.pages.routes import routes

__all__ = ["error_page", "routes"]
