(source_file (var_declaration (var_spec name: (identifier) @name) @definition.variable))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @name) @definition.variable)))
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.constant))
(type_spec name: (type_identifier) @name type: (struct_type)) @definition.class
(type_spec name: (type_identifier) @name type: (interface_type)) @definition.interface
(type_alias name: (type_identifier) @name) @definition.type
(method_elem name: (field_identifier) @name) @definition.method
(field_declaration !name type: [
  (type_identifier) @name
  (qualified_type name: (type_identifier) @name)
  (generic_type type: (type_identifier) @name)
]) @reference.inherits
(interface_type (type_elem (type_identifier) @name)) @reference.inherits
(interface_type (type_elem (qualified_type name: (type_identifier) @name))) @reference.inherits
(qualified_type name: (type_identifier) @name) @reference.type
(composite_literal type: (type_identifier) @name) @reference.class
(argument_list (identifier) @name) @reference.value
(argument_list (selector_expression field: (field_identifier) @name)) @reference.value
(keyed_element (literal_element (identifier) @name)) @reference.value
(assignment_statement right: (expression_list (identifier) @name)) @reference.value
(return_statement (expression_list (identifier) @name)) @reference.value
(return_statement (expression_list (selector_expression field: (field_identifier) @name))) @reference.value
(binary_expression (identifier) @name) @reference.value
(binary_expression (selector_expression field: (field_identifier) @name)) @reference.value
