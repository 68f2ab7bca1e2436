"""What sources in languages other than Python define and refer to."""

from __future__ import annotations

import pytest

from sluice.contracts.graph.model import EdgeType, GraphDocument, Origin
from sluice.graph.extract.extract import extract_edges
from sluice.graph.extract.languages.edges import RULES

TYPESCRIPT = """import { pay as charge } from "./pay";
import React, * as R from "react";
export { total } from "../lib/totals.js";
export default class Cart extends Base implements Sellable {
  private x = () => { this.add(1); charge(this.x); };
  add(item: Item) { helper(item); item.save(); return new Order(); }
}
function helper(a) {}
interface Item { save(): void }
export const api = { get() { return helper(); } };
exports.old = function() { R.useState(); }
Cart.prototype.extra = function () {};
const LIMIT = 3;
"""
GO = """package cart
import (
 "fmt"
 pay "github.com/acme/shop/pay/v2"
)
type Cart struct { Base; items []Item }
type Item interface { Save() error }
func (c *Cart) Add(i Item) error { c.check(i); fmt.Println(i); pay.Charge(i); return i.Save() }
func New() *Cart { return newCart(helper) }
func helper() {}
"""
RUST = """use crate::pay::{charge, Card as C};
use super::totals;
pub use self::inner::Total;
pub struct Cart { a: Item }
impl Cart { pub fn add(&self, c: C) { self.check(); charge(c); totals::sum(); x.save() } fn check(&self) {} }
impl fmt::Display for Cart { fn fmt(&self) {} }
mod inner { pub fn deep() {} }
"""
JAVA = """package com.acme;
import com.acme.pay.Charger;
public class Cart extends Base implements Sellable<Item> {
  private Charger charger;
  public Cart() { init(); }
  void add(Item item) { this.check(item); charger.charge(item); Totals.sum(item); Charger.make(); }
}
"""
CPP = """#include "cart.h"
#include <shop/pay.hpp>
namespace shop {
class Cart : public Base { public: void add(int x) { check(x); this->go(); charge(x); } void check(int); };
void Cart::check(int x) { helper(x); }
static int helper(int x) { int y(x); return y; }
}
"""


def edges(path: str, language: str, text: str, edge_type: EdgeType) -> dict[str, Origin]:
    found = extract_edges(GraphDocument("d1", path, None, None, language, text, {}))
    from_symbol = edge_type in (EdgeType.DEFINED_IN, EdgeType.ALIAS_OF, EdgeType.INHERITS)
    return {
        (one.source if from_symbol else one.target).key.partition(":")[2]: one.origin
        for one in found
        if one.type is edge_type
    }


def defined(path: str, language: str, text: str) -> set[str]:
    return {name for name in edges(path, language, text, EdgeType.DEFINED_IN) if not name.startswith("?")}


def referred(path: str, language: str, text: str) -> dict[str, Origin]:
    return edges(path, language, text, EdgeType.REFERS_TO)


def test_typescript_defines_by_module_and_class() -> None:
    module = "main.shop.cart"
    assert defined("main/shop/cart.ts", "typescript", TYPESCRIPT) == {
        module,
        *(f"{module}.{name}" for name in ("Cart", "Cart.x", "Cart.add", "Cart.extra", "helper", "Item", "Item.save")),
        *(f"{module}.{name}" for name in ("api", "api.get", "old", "LIMIT")),
    }


def test_typescript_refers_by_import_scope_and_name() -> None:
    found = referred("main/shop/cart.ts", "typescript", TYPESCRIPT)
    assert found["main.shop.pay.pay"] is Origin.IMPORT
    assert found["main.lib.totals.total"] is Origin.IMPORT
    assert found["react.useState"] is Origin.IMPORT
    assert found["main.shop.cart.helper"] is Origin.SCOPE
    assert found["main.shop.cart.Cart.add"] is Origin.SELF
    assert found["?.save"] is Origin.NAME
    assert edges("main/shop/cart.ts", "typescript", TYPESCRIPT, EdgeType.ALIAS_OF).keys() == {
        "main.shop.cart.default",
        "main.shop.cart.total",
    }
    assert "main.shop.cart.Cart" in edges("main/shop/cart.ts", "typescript", TYPESCRIPT, EdgeType.INHERITS)


def test_a_required_module_and_an_index_are_modules() -> None:
    text = 'const { add: more, drop } = require("../cart");\nmore(); drop();\nmodule.exports = function () {};\n'
    assert {"main.cart.add", "main.cart.drop"} <= referred("main/web/index.js", "javascript", text).keys()
    assert defined("main/web/index.js", "javascript", text) == {"main.web", "main.web.default"}


def test_all_that_a_module_hands_on_is_an_alias() -> None:
    found = edges("main/web/index.ts", "typescript", 'export * from "./cart";\n', EdgeType.ALIAS_OF)
    assert found.keys() == {"main.web.*"}


def test_go_packages_are_folders_and_imports_what_is_within_a_repository() -> None:
    assert {"main.cart.Cart", "main.cart.Cart.Add", "main.cart.Item.Save", "main.cart.New"} <= defined(
        "main/cart/cart.go", "go", GO
    )
    found = referred("main/cart/cart.go", "go", GO)
    assert found["shop.pay.Charge"] is Origin.IMPORT
    assert found["fmt.Println"] is Origin.IMPORT
    assert found["main.cart.Cart.check"] is Origin.SELF
    assert found["main.cart.helper"] is Origin.SCOPE
    assert found["main.cart.newCart"] is Origin.IMPORT  # of the same package
    assert found["?.Save"] is Origin.NAME


def test_rust_modules_are_paths_from_the_crate() -> None:
    path = "main/shop-x/src/cart/mod.rs"
    module = "main.shop_x.cart"
    assert {f"{module}.Cart.add", f"{module}.Cart.fmt", f"{module}.inner.deep"} <= defined(path, "rust", RUST)
    found = referred(path, "rust", RUST)
    assert found["main.shop_x.pay.charge"] is Origin.IMPORT
    assert found["main.shop_x.pay.Card"] is Origin.IMPORT
    assert found["main.shop_x.totals.sum"] is Origin.IMPORT
    assert found[f"{module}.Cart.check"] is Origin.SELF
    assert found["?.save"] is Origin.NAME


def test_java_classes_are_known_by_their_package() -> None:
    assert {"com.acme.Cart", "com.acme.Cart.add", "com.acme.Cart.charger"} <= defined("a/Cart.java", "java", JAVA)
    found = referred("a/Cart.java", "java", JAVA)
    assert found["com.acme.pay.Charger.make"] is Origin.IMPORT
    assert found["com.acme.Totals.sum"] is Origin.IMPORT
    assert found["com.acme.Cart.check"] is Origin.SELF
    assert found["com.acme.Cart.init"] is Origin.SELF
    assert found["?.charge"] is Origin.NAME


def test_c_and_cpp_share_names_across_files_and_include_by_path() -> None:
    assert defined("main/cart.cpp", "cpp", CPP) == {"shop.Cart", "shop.Cart.add", "shop.Cart.check", "shop.helper"}
    found = referred("main/cart.cpp", "cpp", CPP)
    assert found["shop.Cart.check"] is Origin.SCOPE
    assert found["shop.Cart.go"] is Origin.SELF
    assert edges("main/cart.cpp", "cpp", CPP, EdgeType.LINKS_TO) == {
        "?/cart.h": Origin.NAME,
        "main/cart.h": Origin.IMPORT,
        "shop/pay.hpp": Origin.IMPORT,
    }


def test_what_is_static_in_a_source_is_its_own_and_in_a_header_for_all() -> None:
    text = "static int add(int a) { return a; }\nint drop(void);\nint go(void) { return add(1); }\n"
    assert defined("main/cart.c", "c", text) == {"main.cart.add", "drop", "go"}
    assert defined("main/cart.h", "c", text) == {"add", "drop", "go"}


@pytest.mark.parametrize("language", sorted(RULES))
def test_every_language_reads_what_is_no_source(language: str) -> None:
    for text in ("", "}{" * 1_000, "a.b.c(" * 500, "\x00\ud800é", "class " * 1_000):
        found = extract_edges(GraphDocument("d1", "main/x", None, None, language, text, {}))
        assert found == extract_edges(GraphDocument("d1", "main/x", None, None, language, text, {}))
