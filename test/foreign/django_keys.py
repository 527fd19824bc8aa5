"""Keys as they are, without a prefix or version."""


def bare(key, _prefix, _version):
    return key
