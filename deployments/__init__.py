"""The deployments: crag-serve's stages and graphs on Ray Serve, their backends and the HTTP API."""
