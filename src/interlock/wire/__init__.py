"""Every type that travels, once: the API fills them, the SDK and the command line read them."""
