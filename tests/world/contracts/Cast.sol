// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// Answers every name below the one it is set on with the same two records (ENSIP-10).
contract WildcardResolver {
    error UnsupportedResolverProfile(bytes4 selector);

    address private wallet;
    bytes private content;

    constructor(address wallet_, bytes memory content_) {
        (wallet, content) = (wallet_, content_);
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x9061b923;
    }

    function resolve(bytes calldata, bytes calldata data) external view returns (bytes memory) {
        if (bytes4(data) == 0x3b3b57de) return abi.encode(wallet); // addr(bytes32)
        if (bytes4(data) == 0xbc1c58d1) return abi.encode(content); // contenthash(bytes32)
        revert UnsupportedResolverProfile(bytes4(data));
    }
}

/// Keeps its records behind gateways: what a gateway answers is the ABI-encoded record (EIP-3668).
contract OffchainResolver {
    error OffchainLookup(address sender, string[] urls, bytes callData, bytes4 callbackFunction, bytes extraData);

    string[] internal urls;

    constructor(string[] memory urls_) {
        urls = urls_;
    }

    function supportsInterface(bytes4 id) external pure virtual returns (bool) {
        return id == 0x01ffc9a7 || id == 0x9061b923;
    }

    function resolve(bytes calldata, bytes calldata data) external view virtual returns (bytes memory) {
        revert OffchainLookup(address(this), urls, data, this.resolveCallback.selector, data);
    }

    function resolveCallback(bytes calldata response, bytes calldata) external view virtual returns (bytes memory) {
        return response;
    }
}

/// The same, for several records at once: the gateway answers a whole multicall (ENSIP-22).
contract OffchainMulticallResolver is OffchainResolver {
    constructor(string[] memory urls_) OffchainResolver(urls_) {}

    function supportsInterface(bytes4 id) external pure override returns (bool) {
        return id == 0x01ffc9a7 || id == 0x9061b923 || id == this.supportsFeature.selector;
    }

    function supportsFeature(bytes4 id) external pure returns (bool) {
        return id == bytes4(keccak256("eth.ens.resolver.extended.multicall"));
    }
}

/// Believes no gateway.
contract DistrustfulResolver is OffchainResolver {
    error InvalidSignature();

    constructor(string[] memory urls_) OffchainResolver(urls_) {}

    function resolveCallback(bytes calldata, bytes calldata) external pure override returns (bytes memory) {
        revert InvalidSignature();
    }
}

/// Says that somebody else asked for the lookup.
contract ImpostorResolver is OffchainResolver {
    address private claimed;

    constructor(string[] memory urls_, address claimed_) OffchainResolver(urls_) {
        claimed = claimed_;
    }

    function resolve(bytes calldata, bytes calldata data) external view override returns (bytes memory) {
        revert OffchainLookup(claimed, urls, data, this.resolveCallback.selector, data);
    }
}

/// Wants as many lookups, one after the other, as it was made for.
contract WindingResolver is OffchainResolver {
    uint256 private lookups;

    constructor(string[] memory urls_, uint256 lookups_) OffchainResolver(urls_) {
        lookups = lookups_;
    }

    function resolve(bytes calldata, bytes calldata data) external view override returns (bytes memory) {
        ask(data, lookups);
        return "";
    }

    function resolveCallback(bytes calldata response, bytes calldata extraData) external view override returns (bytes memory) {
        (bytes memory data, uint256 left) = abi.decode(extraData, (bytes, uint256));
        ask(data, left);
        return response;
    }

    function ask(bytes memory data, uint256 left) private view {
        if (left == 0) return;
        revert OffchainLookup(address(this), urls, data, this.resolveCallback.selector, abi.encode(data, left - 1));
    }
}

/// A resolver of the early days: it knows an address and has never heard of contenthash.
contract AddressOnlyResolver {
    address private wallet;

    constructor(address wallet_) {
        wallet = wallet_;
    }

    function addr(bytes32) external view returns (address) {
        return wallet;
    }
}

/// Tells its wallet, and the name of any address, to the Universal Resolver alone.
contract ParticularResolver {
    address private universal;
    address private wallet;
    string private primary;

    constructor(address universal_, address wallet_, string memory primary_) {
        (universal, wallet, primary) = (universal_, wallet_, primary_);
    }

    function addr(bytes32) external view returns (address) {
        return msg.sender == universal ? wallet : address(0x1111111111111111111111111111111111111111);
    }

    function name(bytes32) external view returns (string memory) {
        return msg.sender == universal ? primary : "nobody.eth";
    }
}

/// Owns names in the registry on behalf of wallets, as far as `ownerOf` goes.
contract NameWrapper {
    mapping(uint256 => address) public ownerOf;

    function wrap(uint256 node, address owner) external {
        ownerOf[node] = owner;
    }
}
