(const_item name: (identifier) @name) @definition.constant
(static_item name: (identifier) @name) @definition.variable
(function_signature_item name: (identifier) @name) @definition.method
(associated_type name: (type_identifier) @name) @definition.type
(impl_item type: [
  (type_identifier) @name
  (generic_type type: (type_identifier) @name)
  (scoped_type_identifier name: (type_identifier) @name)
  (generic_type type: (scoped_type_identifier name: (type_identifier) @name))
]) @scope
(impl_item trait: [
  (type_identifier) @name
  (generic_type type: (type_identifier) @name)
  (scoped_type_identifier name: (type_identifier) @name)
]) @reference.inherits
(trait_item bounds: (trait_bounds [(type_identifier) @name (scoped_type_identifier name: (type_identifier) @name)]))
  @reference.inherits
(call_expression function: (scoped_identifier name: (identifier) @name)) @reference.call
(call_expression function: (generic_function function: [
  (identifier) @name
  (scoped_identifier name: (identifier) @name)
  (field_expression field: (field_identifier) @name)
])) @reference.call
(macro_invocation macro: (scoped_identifier name: (identifier) @name)) @reference.call
(struct_expression name: [
  (type_identifier) @name
  (scoped_type_identifier name: (type_identifier) @name)
]) @reference.class
(type_identifier) @name @reference.type
(arguments (identifier) @name) @reference.value
(arguments (scoped_identifier name: (identifier) @name)) @reference.value
