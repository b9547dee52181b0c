// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

interface Registry {
    function resolver(bytes32 node) external view returns (address);
}

interface ExtendedResolver {
    function resolve(bytes calldata name, bytes calldata data) external view returns (bytes memory);
}

interface FeaturedResolver {
    function supportsFeature(bytes4 id) external view returns (bool);
}

interface BatchGateway {
    struct Request {
        address sender;
        string[] urls;
        bytes data;
    }

    function query(Request[] calldata requests) external view returns (bool[] memory failures, bytes[] memory responses);
}

/// Stands in for the Universal Resolver of mainnet, as its callers see it: same
/// calls, same answers, same errors, same off-chain rounds (EIP-3668, ENSIP-21,
/// ENSIP-22), forward and reverse. Left out: batch gateways of the caller's own choice,
/// labels written as [hash], resolvers so old that they know no revert.
contract UniversalResolver {
    error DNSDecodingFailed(bytes name);
    error DNSEncodingFailed(string name);
    error EmptyAddress();
    error ReverseAddressMismatch(string primary, bytes primaryAddress);
    error ResolverNotFound(bytes name);
    error ResolverNotContract(bytes name, address resolver);
    error UnsupportedResolverProfile(bytes4 selector);
    error ResolverError(bytes errorData);
    error OffchainLookup(address sender, string[] urls, bytes callData, bytes4 callbackFunction, bytes extraData);

    /// Who answers for a name, as ethers asks for it.
    struct ResolverInfo {
        bytes name;
        uint256 offset;
        bytes32 node;
        address resolver;
        bool extended;
    }

    /// What became of one call.
    enum Outcome { Waiting, Answered, Failed, GatewayFailed }

    struct Lookup {
        bytes4 selector;
        Outcome outcome;
        bytes data; // the answer, the error, or the OffchainLookup it waits for
    }

    struct Session {
        address resolver;
        bool extended;
        bool many;
        Lookup[] lookups;
    }

    /// A resolver that is asked without the batch gateway, and the callback it waits in.
    struct Direct {
        address resolver;
        bool extended;
        bytes4 selector;
        bytes4 callback;
        bytes extra;
    }

    /// A reverse lookup: first of the address, and once there is a primary name of that.
    struct Reverse {
        bytes lookupAddress;
        uint256 coinType;
        string primary;
        address reverseResolver;
    }

    /// A reverse lookup that waits for a gateway, and the callback it waits in.
    struct ReverseWaiting {
        Reverse lookup;
        bytes4 callback;
        bytes extra;
    }

    uint256 private constant ETH = 60;
    uint256 private constant EVERY_EVM_CHAIN = 0x80000000;
    bytes4 private constant MULTICALL = 0xac9650d8;
    bytes4 private constant WHOLE_MULTICALLS = bytes4(keccak256("eth.ens.resolver.extended.multicall"));

    Registry public immutable registry;

    constructor(Registry registry_) {
        registry = registry_;
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0xcd191b34; // ERC-165, ENSIP-23
    }

    /// What *data* (one call, or a multicall of several) answers for *name*, and who answered.
    function resolve(bytes calldata name, bytes calldata data) public view returns (bytes memory, address) {
        Session memory session;
        (session.resolver, session.extended) = resolverOf(name);
        session.many = bytes4(data) == MULTICALL;
        if (isDirect(session)) {
            Direct memory direct = Direct(session.resolver, session.extended, bytes4(data), 0, "");
            return askDirectly(direct, direct.extended ? abi.encodeCall(ExtendedResolver.resolve, (name, data)) : data);
        }
        bytes[] memory calls = new bytes[](1);
        if (session.many) calls = abi.decode(data[4:], (bytes[]));
        else calls[0] = data;

        session.lookups = new Lookup[](calls.length);
        for (uint256 i; i < calls.length; ++i) {
            bytes memory call = session.extended ? abi.encodeCall(ExtendedResolver.resolve, (name, calls[i])) : calls[i];
            session.lookups[i].selector = bytes4(call);
            ask(session.lookups[i], session.resolver, call);
        }
        return conclude(session);
    }

    /// The same, as viem asks: its batch gateway is the one that everybody has.
    function resolveWithGateways(bytes calldata name, bytes calldata data, string[] calldata gateways) external view returns (bytes memory, address) {
        require(gateways.length == 1 && keccak256(bytes(gateways[0])) == keccak256("x-batch-gateway:true"));
        return resolve(name, data);
    }

    function requireResolver(bytes memory name) external view returns (ResolverInfo memory info) {
        info.name = name;
        (info.resolver, info.extended) = resolverOf(name);
        (, info.node, info.offset) = findResolver(name);
    }

    /// The second half of `resolve`, once the batch gateway has answered (EIP-3668).
    function resolveCallback(bytes calldata response, bytes calldata extraData) external view returns (bytes memory, address) {
        (bool[] memory failures, bytes[] memory responses) = abi.decode(response, (bool[], bytes[]));
        Session memory session = abi.decode(extraData, (Session));
        uint256 next;
        for (uint256 i; i < session.lookups.length; ++i) {
            Lookup memory lookup = session.lookups[i];
            if (lookup.outcome != Outcome.Waiting) continue;
            bytes memory answer = responses[next];
            if (failures[next++]) {
                (lookup.outcome, lookup.data) = (Outcome.GatewayFailed, answer);
            } else {
                (address sender,,, bytes4 callback, bytes memory extra) = offchainLookup(lookup.data);
                ask(lookup, sender, abi.encodeWithSelector(callback, answer, extra));
            }
        }
        return conclude(session);
    }

    /// The second half of `resolve` for a resolver that is asked directly.
    function directCallback(bytes calldata response, bytes calldata extraData) external view returns (bytes memory, address) {
        Direct memory direct = abi.decode(extraData, (Direct));
        return askDirectly(direct, abi.encodeWithSelector(direct.callback, response, direct.extra));
    }

    /// The primary name of an address (ENSIP-19), who resolves it, and who resolved the address.
    function reverse(bytes calldata lookupAddress, uint256 coinType) public view returns (string memory, address, address) {
        if (lookupAddress.length == 0) revert EmptyAddress();
        string memory chain = coinType == ETH ? "addr" : coinType == EVERY_EVM_CHAIN ? "default" : hexadecimal(abi.encodePacked(coinType), true);
        bytes memory name = encoded(string.concat(hexadecimal(lookupAddress, false), ".", chain, ".reverse"));
        (, bytes32 node,) = findResolver(name);
        bytes memory call = abi.encodeCall(this.resolve, (name, abi.encodeWithSignature("name(bytes32)", node)));
        return lookUp(Reverse(lookupAddress, coinType, "", address(0)), call);
    }

    /// The same, as viem asks.
    function reverseWithGateways(bytes calldata lookupAddress, uint256 coinType, string[] calldata gateways) external view returns (string memory, address, address) {
        require(gateways.length == 1 && keccak256(bytes(gateways[0])) == keccak256("x-batch-gateway:true"));
        return reverse(lookupAddress, coinType);
    }

    /// Goes on with a reverse lookup, with what the batch gateway said.
    function reverseCallback(bytes calldata response, bytes calldata extraData) external view returns (string memory, address, address) {
        ReverseWaiting memory waiting = abi.decode(extraData, (ReverseWaiting));
        return lookUp(waiting.lookup, abi.encodeWithSelector(waiting.callback, response, waiting.extra));
    }

    /// Makes *call*, which is a `resolve` of ours or its second half, and what follows from it.
    function lookUp(Reverse memory lookup, bytes memory call) private view returns (string memory, address, address) {
        (bytes memory answer, address resolver) = resolved(lookup, call);
        if (bytes(lookup.primary).length == 0) {
            (lookup.primary, lookup.reverseResolver) = (abi.decode(answer, (string)), resolver);
            if (bytes(lookup.primary).length == 0) return ("", address(0), resolver);
            bytes memory name = encoded(lookup.primary);
            (, bytes32 node,) = findResolver(name);
            bytes memory question = lookup.coinType == ETH
                ? abi.encodeWithSignature("addr(bytes32)", node)
                : abi.encodeWithSignature("addr(bytes32,uint256)", node, lookup.coinType);
            return lookUp(lookup, abi.encodeCall(this.resolve, (name, question)));
        }
        bytes memory found = lookup.coinType == ETH ? abi.encodePacked(abi.decode(answer, (address))) : abi.decode(answer, (bytes));
        if (keccak256(found) != keccak256(lookup.lookupAddress)) revert ReverseAddressMismatch(lookup.primary, found);
        return (lookup.primary, resolver, lookup.reverseResolver);
    }

    /// What *call* of ours returns; its OffchainLookup comes back to us in the reverse lookup.
    function resolved(Reverse memory lookup, bytes memory call) private view returns (bytes memory, address) {
        (bool ok, bytes memory data) = address(this).staticcall(call);
        if (ok) return abi.decode(data, (bytes, address));
        if (bytes4(data) == OffchainLookup.selector) {
            (, string[] memory urls, bytes memory callData, bytes4 callback, bytes memory extra) = offchainLookup(data);
            revert OffchainLookup(address(this), urls, callData, this.reverseCallback.selector, abi.encode(ReverseWaiting(lookup, callback, extra)));
        }
        assembly {
            revert(add(data, 32), mload(data))
        }
    }

    /// *text* in DNS wire format.
    function encoded(string memory text) private pure returns (bytes memory wire) {
        bytes memory dotted = bytes(text);
        wire = new bytes(dotted.length + 2);
        uint256 start;
        for (uint256 at; at <= dotted.length; ++at) {
            if (at < dotted.length && dotted[at] != ".") {
                wire[at + 1] = dotted[at];
                continue;
            }
            uint256 size = at - start;
            if (size == 0 || size > 255) revert DNSEncodingFailed(text);
            wire[start] = bytes1(uint8(size));
            start = at + 1;
        }
    }

    /// The digits of *data*, without zeros at the beginning where it is a *number*.
    function hexadecimal(bytes memory data, bool number) private pure returns (string memory) {
        bytes memory digits = new bytes(2 * data.length);
        uint256 count;
        for (uint256 i; i < digits.length; ++i) {
            uint8 digit = uint8(data[i / 2]) >> (i % 2 == 0 ? 4 : 0) & 15;
            if (number && count == 0 && digit == 0 && i + 1 < digits.length) continue;
            digits[count++] = bytes1(digit < 10 ? 48 + digit : 87 + digit);
        }
        assembly {
            mstore(digits, count)
        }
        return string(digits);
    }

    /// The resolver of *name* or of its nearest ancestor that has one (ENSIP-10).
    function findResolver(bytes memory name) public view returns (address resolver, bytes32 node, uint256 offset) {
        return findResolver(name, 0);
    }

    function findResolver(bytes memory name, uint256 offset) private view returns (address resolver, bytes32 node, uint256 found) {
        uint256 size = offset < name.length ? uint8(name[offset]) : 0;
        uint256 next = offset + 1 + size;
        if (size == 0 ? next != name.length : next >= name.length) revert DNSDecodingFailed(name);
        if (size == 0) return (address(0), 0, 0);
        bytes32 labelHash;
        assembly {
            labelHash := keccak256(add(add(name, 33), offset), size)
        }
        (resolver, node, found) = findResolver(name, next);
        node = keccak256(abi.encodePacked(node, labelHash));
        address own = registry.resolver(node);
        if (own != address(0)) (resolver, found) = (own, offset);
    }

    function resolverOf(bytes memory name) private view returns (address resolver, bool extended) {
        uint256 offset;
        (resolver,, offset) = findResolver(name);
        if (resolver == address(0)) revert ResolverNotFound(name);
        extended = knows(resolver, ExtendedResolver.resolve.selector);
        if (extended) return (resolver, extended);
        if (offset != 0) revert ResolverNotFound(name); // an ancestor's resolver must be a wildcard
        if (resolver.code.length == 0) revert ResolverNotContract(name, resolver);
    }

    function knows(address resolver, bytes4 id) private view returns (bool) {
        (bool ok, bytes memory answer) = resolver.staticcall{gas: 30000}(abi.encodeWithSignature("supportsInterface(bytes4)", id));
        return ok && answer.length >= 32 && uint256(bytes32(answer)) != 0;
    }

    /// Whether the resolver has features, and the one for multicalls if this is one (ENSIP-22).
    function isDirect(Session memory session) private view returns (bool) {
        if (!knows(session.resolver, FeaturedResolver.supportsFeature.selector)) return false;
        if (!session.many) return true;
        return session.extended && FeaturedResolver(session.resolver).supportsFeature(WHOLE_MULTICALLS);
    }

    /// Passes the resolver's answer, error or lookup on as it is.
    function askDirectly(Direct memory direct, bytes memory call) private view returns (bytes memory, address) {
        (bool ok, bytes memory data) = direct.resolver.staticcall(call);
        if (!ok && bytes4(data) == OffchainLookup.selector) {
            string[] memory urls;
            address sender;
            (sender, urls, call, direct.callback, direct.extra) = offchainLookup(data);
            if (sender == direct.resolver) {
                revert OffchainLookup(address(this), urls, call, this.directCallback.selector, abi.encode(direct));
            }
        }
        Lookup memory lookup = Lookup(direct.selector, ok ? Outcome.Answered : Outcome.Failed, data);
        return (answerOrRevert(lookup, direct.extended), direct.resolver);
    }

    function ask(Lookup memory lookup, address target, bytes memory call) private view {
        bool ok;
        (ok, lookup.data) = target.staticcall(call);
        if (ok) lookup.outcome = Outcome.Answered;
        else if (bytes4(lookup.data) == OffchainLookup.selector) lookup.outcome = Outcome.Waiting;
        else lookup.outcome = Outcome.Failed;
    }

    function conclude(Session memory session) private view returns (bytes memory, address) {
        revertIfWaiting(session);
        if (!session.many) return (answerOrRevert(session.lookups[0], session.extended), session.resolver);
        bytes[] memory answers = new bytes[](session.lookups.length);
        for (uint256 i; i < answers.length; ++i) {
            answers[i] = unwrapped(session.lookups[i], session.extended);
        }
        return (abi.encode(answers), session.resolver);
    }

    /// An answer as the resolver's profile gave it; an error, or nothing, as it is.
    function unwrapped(Lookup memory lookup, bool extended) private pure returns (bytes memory) {
        if (!extended || lookup.outcome != Outcome.Answered || lookup.data.length == 0) return lookup.data;
        return abi.decode(lookup.data, (bytes));
    }

    function answerOrRevert(Lookup memory lookup, bool extended) private pure returns (bytes memory) {
        bytes memory data = lookup.data;
        if (lookup.outcome == Outcome.Answered) {
            if (data.length == 0) revert UnsupportedResolverProfile(lookup.selector);
            return unwrapped(lookup, extended);
        }
        if (lookup.outcome == Outcome.Failed && bytes4(data) != UnsupportedResolverProfile.selector) revert ResolverError(data);
        assembly {
            revert(add(data, 32), mload(data))
        }
    }

    /// Sends the caller to the batch gateway with all the lookups that are still waiting.
    function revertIfWaiting(Session memory session) private view {
        BatchGateway.Request[] memory requests = new BatchGateway.Request[](session.lookups.length);
        uint256 count;
        for (uint256 i; i < session.lookups.length; ++i) {
            if (session.lookups[i].outcome != Outcome.Waiting) continue;
            (address sender, string[] memory urls, bytes memory callData,,) = offchainLookup(session.lookups[i].data);
            requests[count++] = BatchGateway.Request(sender, urls, callData);
        }
        if (count == 0) return;
        assembly {
            mstore(requests, count)
        }
        string[] memory gateways = new string[](1);
        gateways[0] = "x-batch-gateway:true";
        bytes memory query = abi.encodeCall(BatchGateway.query, (requests));
        revert OffchainLookup(address(this), gateways, query, this.resolveCallback.selector, abi.encode(session));
    }

    function offchainLookup(bytes memory data) private pure returns (address, string[] memory, bytes memory, bytes4, bytes memory) {
        bytes memory arguments = new bytes(data.length - 4);
        for (uint256 i; i < arguments.length; ++i) arguments[i] = data[i + 4];
        return abi.decode(arguments, (address, string[], bytes, bytes4, bytes));
    }
}
