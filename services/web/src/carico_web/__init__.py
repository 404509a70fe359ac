"""CARICO web: the live page, which is a client of the bus itself, and the server that delivers it.

- `service`      the HTTP server (aiohttp)
- `site`         the files of `page/` with their tags; requests -> responses; metrics
- `identity`     how the page signs on to the bus: nothing, an nkey or a token
- `page/`        the page: `main.js` starts it, a module per part
- `settings`     configuration
"""
