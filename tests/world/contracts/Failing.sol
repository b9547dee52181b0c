// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

import {OffchainResolver} from "Cast.sol";

/// Does with each of the two records what it was made for, on the chain and for every name.
contract FailingResolver {
    /// Return *data* as it is, revert with it, hit INVALID, burn all gas, revert without a word, or
    /// return `bytes` of the length that *data* holds.
    enum Way { Returns, Reverts, Invalid, OutOfGas, Bare, Long }

    struct Record {
        Way way;
        bytes data;
    }

    bool private extended; // ENSIP-10: what is returned is then wrapped in `bytes`
    mapping(bytes4 => Record) private records;

    constructor(bool extended_, Record memory addr_, Record memory contenthash_) {
        extended = extended_;
        records[0x3b3b57de] = addr_; // addr(bytes32)
        records[0xf1cb7e06] = addr_; // addr(bytes32,uint256)
        records[0xbc1c58d1] = contenthash_; // contenthash(bytes32)
    }

    fallback(bytes calldata call) external returns (bytes memory) {
        bytes4 selector = bytes4(call);
        if (selector == 0x01ffc9a7) { // supportsInterface(bytes4)
            bytes4 id = bytes4(call[4:]);
            return abi.encode(id == 0x01ffc9a7 || (extended && id == 0x9061b923));
        }
        if (selector != 0x9061b923) return record(selector); // resolve(bytes,bytes)
        (, bytes memory inner) = abi.decode(call[4:], (bytes, bytes));
        return abi.encode(record(bytes4(inner)));
    }

    function record(bytes4 selector) private view returns (bytes memory data) {
        Way way = records[selector].way;
        data = records[selector].data;
        if (way == Way.Returns) return data;
        if (way == Way.Long) return abi.encode(new bytes(abi.decode(data, (uint256))));
        if (way == Way.OutOfGas) while (true) data = abi.encode(keccak256(data));
        assembly {
            if eq(way, 2) { invalid() }
            if eq(way, 4) { revert(0, 0) }
            revert(add(data, 32), mload(data))
        }
    }
}

/// Names of Farcaster: a gateway has the address, and nothing but `addr` is known.
contract FnameResolver is OffchainResolver {
    error ResolverFunctionNotSupported();

    constructor(string[] memory urls_) OffchainResolver(urls_) {}

    function resolve(bytes calldata, bytes calldata data) external view override returns (bytes memory) {
        if (bytes4(data) != 0x3b3b57de) revert ResolverFunctionNotSupported(); // addr(bytes32)
        revert OffchainLookup(address(this), urls, data, this.resolveCallback.selector, data);
    }
}

/// What a TXT record says of a name of DNS: an address, and no function besides (2023).
contract ExtendedDNSResolver {
    error NotImplemented();
    error InvalidAddressFormat(bytes context);

    /// *context* is what follows the resolver in the record: `0x...`, or `a[60]=0x...`.
    function resolve(bytes calldata, bytes calldata data, bytes calldata context) external pure returns (bytes memory) {
        if (bytes4(data) == 0x3b3b57de) return abi.encode(addressIn(context)); // addr(bytes32)
        if (bytes4(data) == 0xf1cb7e06) { // addr(bytes32,uint256)
            (, uint256 coin) = abi.decode(data[4:], (bytes32, uint256));
            return abi.encode(coin == 60 ? abi.encodePacked(addressIn(context)) : bytes(""));
        }
        revert NotImplemented();
    }

    function addressIn(bytes calldata context) private pure returns (address) {
        for (uint256 at; at + 42 <= context.length; ++at) {
            if (context[at] == "0" && context[at + 1] == "x") return address(uint160(number(context[at + 2:at + 42])));
        }
        revert InvalidAddressFormat(context);
    }

    function number(bytes calldata digits) private pure returns (uint256 value) {
        for (uint256 at; at < digits.length; ++at) {
            uint8 digit = uint8(digits[at]) | 0x20;
            value = value * 16 + (digit > 0x60 ? digit - 0x57 : digit - 0x30);
        }
    }
}

/// Holds the names of a whole ending of DNS: a gateway brings their TXT records, here unsigned, as
/// one ABI-encoded `string[]`.
contract OffchainDNSResolver is OffchainResolver {
    error CouldNotResolve(bytes name);

    ExtendedDNSResolver private immutable extended = new ExtendedDNSResolver();

    constructor(string[] memory urls_) OffchainResolver(urls_) {}

    function resolve(bytes calldata name, bytes calldata data) external view override returns (bytes memory) {
        bytes memory question = abi.encodeWithSignature("resolve(bytes,uint16)", name, uint16(16)); // TXT
        revert OffchainLookup(address(this), urls, question, this.resolveCallback.selector, abi.encode(name, data));
    }

    function resolveCallback(bytes calldata response, bytes calldata extraData) external view override returns (bytes memory) {
        (bytes memory name, bytes memory data) = abi.decode(extraData, (bytes, bytes));
        string[] memory texts = abi.decode(response, (string[]));
        for (uint256 i; i < texts.length; ++i) {
            bytes memory text = bytes(texts[i]);
            if (text.length > 5 && bytes5(text) == "ENS1 ") return extended.resolve(name, data, behindResolver(text));
        }
        revert CouldNotResolve(name);
    }

    /// What follows the second blank: `ENS1 dnsname.ens.eth CONTEXT`.
    function behindResolver(bytes memory text) private pure returns (bytes memory context) {
        uint256 start = 5;
        while (start < text.length && text[start] != " ") ++start;
        if (start < text.length) ++start;
        context = new bytes(text.length - start);
        for (uint256 at; at < context.length; ++at) context[at] = text[start + at];
    }
}

/// A Universal Resolver of the days before ENSIP-23: names that it cannot find look as if nothing
/// were set.
contract OldUniversalResolver {
    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x9061b923;
    }

    function resolve(bytes calldata, bytes calldata data) external pure returns (bytes memory, address) {
        if (bytes4(data) != 0xac9650d8) return ("", address(0)); // multicall(bytes[])
        return (abi.encode(new bytes[](abi.decode(data[4:], (bytes[])).length)), address(0));
    }
}
