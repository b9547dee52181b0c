"""Names, wallets and content that tests of name services use: real ones, in each of their forms."""

from typing import Final

from content_gateway.model.cid import Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.records import IpfsContent
from content_gateway.model.wallet import CoinType

SITE: Final = DomainName.parse("site.eth")
WALLET: Final = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
OWNER: Final = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
OTHER: Final = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
BASE: Final = CoinType(0x80000000 | 8453)  # ENSIP-11

# ENSIP-7's examples: a CID and an IPNS name, and the contenthash of each.
CID_TEXT: Final = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
CID: Final = Cid.parse(CID_TEXT)
CONTENT: Final = IpfsContent(CID)
IPFS: Final = bytes.fromhex(
    "e3010170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f"
)
KEY_TEXT: Final = "k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1"
IPNS: Final = bytes.fromhex(
    "e50101720024080112205cbd1cc86ac20d6640795809c2a185bb2504538a2de8076da5a6971b8acb4715"
)
