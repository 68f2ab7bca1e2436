(class_specifier name: (template_type name: (type_identifier) @name) body: (_)) @definition.class
(class_specifier name: (type_identifier) @name body: (_)) @definition.class
(struct_specifier name: (template_type name: (type_identifier) @name) body: (_)) @definition.class
(namespace_definition name: (namespace_identifier) @name) @scope
(namespace_definition name: (nested_namespace_specifier) @name) @scope
(alias_declaration name: (type_identifier) @name) @definition.type
(concept_definition name: (identifier) @name) @definition.type
(function_declarator declarator: (qualified_identifier) @name) @definition.method
(function_declarator declarator: (destructor_name) @name) @definition.method
(call_expression function: (qualified_identifier name: (identifier) @name)) @reference.call
(call_expression function: (template_function name: (identifier) @name)) @reference.call
(base_class_clause [
  (type_identifier) @name
  (template_type name: (type_identifier) @name)
  (qualified_identifier name: (type_identifier) @name)
]) @reference.inherits
