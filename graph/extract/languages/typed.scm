(enum_declaration name: (identifier) @name) @definition.enum
(type_alias_declaration name: (type_identifier) @name) @definition.type
(internal_module name: (_) @name) @definition.module
(public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @definition.method
(extends_clause value: [(identifier) @name (member_expression property: (property_identifier) @name)])
  @reference.inherits
(implements_clause [(type_identifier) @name (generic_type name: (type_identifier) @name)]) @reference.inherits
(extends_type_clause [(type_identifier) @name (generic_type name: (type_identifier) @name)]) @reference.inherits
(generic_type name: (type_identifier) @name) @reference.type
(type_arguments (type_identifier) @name) @reference.type
(union_type (type_identifier) @name) @reference.type
(array_type (type_identifier) @name) @reference.type
(type_alias_declaration value: (type_identifier) @name) @reference.type
(ambient_declaration (lexical_declaration (variable_declarator name: (identifier) @name) @definition.variable))
