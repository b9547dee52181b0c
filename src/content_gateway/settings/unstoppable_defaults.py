"""Unstoppable Domains as deployed: the contracts to ask, and the endings that are theirs.

A file of their own: they change when somebody else deploys or sells something."""

from typing import Final

# The contracts of uns-config.json. A name moved from Ethereum to another chain leaves its token
# behind with a bridge, so Ethereum is asked as well but believed last.
PROXY_READERS: Final = {
    "polygon": "0x91EDd8708062bd4233f4Dd0FCE15A7cb4d500091",
    "base": "0x78c4B414e1AbdF0dE267deDa01DFFd4cd0817A16",
    "sonic": "0x3756b465bd9cb1ab75cCaf6dabeA3ff8637b9e1E",
    "ethereum": "0x578853aa776Eef10CeE6c4dd2B5862bdcE767A8B",
}
# docs.unstoppabledomains.com, "Resolution Libraries", without those that are in DNS or ENS.
_ENDINGS: Final = """
    888 altimist anime austin bald bay benji binanceus bitcoin bitget blockchain boomer caw chomp
    clay crypto dao dfz doga donut dream emir ethermail farms go hi klever kresus kryptic lfg
    manga metropolis moon mumu nft npc onchain podcast pog polygon propykeys pudgy quantum raiin
    secret smobler stepn tball tea tribe u ubu unstoppable wallet wifi witg wrkx x xmr zil
"""
TLDS: Final = tuple(_ENDINGS.split())
